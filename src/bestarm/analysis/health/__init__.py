"""Is the data healthy? Whether a study's results contradict what its guarantee rests on.

`watch.py` takes in results in order; `stream.py` keeps what the checks need of one stream; `reading.py` makes notes;
`evidence.py` has the mathematics: how evidence against an assumption is measured, and why false alarms are rare.
"""
