"""Is the data healthy? Whether a study's results contradict what its guarantee rests on.

`watch.py` takes in results in order and says what was found, `checks.py` has the checks of one metric. `bets.py` and
`symmetric.py` say how much is bet on a result and what the bets have won. `evidence.py` combines arms, and proves that
false alarms are rare. `typical.py` knows which values to ask about before they count.
"""
