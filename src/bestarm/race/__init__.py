"""Commands and functions as arms: which is best within limits, and is the new one no worse than the old?"""
