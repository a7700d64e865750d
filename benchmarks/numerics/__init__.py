"""How close results are to the original: other libraries' outputs, int8, bfloat16, decoded text."""
