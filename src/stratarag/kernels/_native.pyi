import numpy as np
from numpy.typing import NDArray

def hamming(query: NDArray[np.uint64], codes: NDArray[np.uint64], out: NDArray[np.uint16]) -> None: ...
