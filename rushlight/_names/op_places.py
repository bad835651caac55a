"""Functions written in Python that are public in two places.

Where an operator of the table is public is said in its row (`python:`).
"""

# Functions of nn.functional that PyTorch also has at the top, with the same arguments.
ALSO_AT_TOP = """channel_shuffle cosine_similarity layer_norm native_channel_shuffle
pairwise_distance pdist pixel_shuffle pixel_unshuffle rms_norm rrelu rrelu_""".split()
