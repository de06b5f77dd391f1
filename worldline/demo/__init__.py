"""The demo: a real sentence encoder, split over ranks, summed by our all-reduce.

``worldline demo`` is ``worldline.demo.run``; the rest of the package is the small encoder it
needs, written out in plain torch.
"""
