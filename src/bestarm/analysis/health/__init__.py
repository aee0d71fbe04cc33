"""Is the data healthy? Whether a study's results contradict what its guarantee rests on.

`watch.py` takes in results in order. `stream.py` keeps what the checks need of one stream: `scores.py` turns results
into numbers whose law is known, `bets.py` bets against it. `seen.py` has what was seen in all streams. `evidence.py`
pools it, and proves that false alarms are rare; `reading.py` says what it means.
"""
