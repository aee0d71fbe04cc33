"""What the evidence says of every arm: intervals, findings, open questions."""
