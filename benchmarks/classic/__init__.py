"""The classical fixed-confidence algorithms as policies of the simulator, for comparison."""
