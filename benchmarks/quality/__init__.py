"""The planted-facts experiment: what a model still knows after its conversation was folded."""
