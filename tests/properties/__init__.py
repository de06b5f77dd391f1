"""What every row of the registry must do, checked on random but seeded calls.

A plan (``plan``) draws calls for a world from the registry alone: a row is tested because it is
there. ``check`` runs a plan on one world, ``replays`` does the same with CUDA graphs; everything is
compared with :mod:`worldline.kernels.reference` to the bit. ``python -m tests.properties`` repeats
what failed.
"""
