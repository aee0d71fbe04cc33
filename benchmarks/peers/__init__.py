"""The same noisy constrained problems for `certify`, for what people do by hand, and for tuners."""
