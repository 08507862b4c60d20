"""Tests on a GPU: `python -m tests.gpu` (see __main__.py).

With TILEWRIGHT_TEST_ON_GPU=1 in the environment, which that command sets, the tests of all engines have one more,
`cuda`; of other tests those of this folder and of tests/torch are kept, on CUDA tensors.
"""

import os

ON_GPU = os.environ.get("TILEWRIGHT_TEST_ON_GPU") == "1"
CUDA = "cuda"       # the engine
