"""All that only cards need: compiling for them, their memory, and the loop that runs there."""
