"""Side-by-side measurements against peers, with bits checked before anything is timed."""
