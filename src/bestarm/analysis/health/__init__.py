"""Is the data healthy? Whether a study's results contradict what its guarantee rests on.

`watch.py` takes in results in order, `metric.py` has the checks of one metric. `weights.py` says how much is bet on a
result, `sums.py` and `odd.py` what the bets have won, `scatter.py` does that for squares. `evidence.py` puts arms
together, and proves that false alarms are rare; `reading.py` says what was found. `typical.py` knows which values to
ask about before they count.
"""
