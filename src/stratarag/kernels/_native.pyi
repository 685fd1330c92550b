import numpy as np
from numpy.typing import NDArray

def hamming(query: NDArray[np.uint64], codes: NDArray[np.uint64], out: NDArray[np.uint16]) -> None: ...
def walks(
    offsets: NDArray[np.generic],
    targets: NDArray[np.generic],
    weights: NDArray[np.generic],
    starts: NDArray[np.int64],
    entries: NDArray[np.int64],
    shares: NDArray[np.float64],
    restart: float,
    steps: int,
    tolerance: float,
    threads: int,
) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]: ...
