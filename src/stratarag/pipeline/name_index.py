"""An inverted index of the words of names: which names stand in a question, without a scan over all names.

Only hashes are stored (64 bits, blake2b), in flat arrays that are written as they are and memory-mapped. A
sequence of words w1..wk has the hash h(w1) B^(k-1) + ... + h(wk) mod 2^64, so that those of all stretches of
a question come from one running sum. Two of a million names share a hash with a chance of 3e-8.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import batched
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
