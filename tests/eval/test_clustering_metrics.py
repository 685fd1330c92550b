from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity as cosines

from stratagraph.eval.clustering_metrics import calinski_harabasz, cosine_similarity


@pytest.fixture
def clustered():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 9, 200)
    vectors = (rng.standard_normal((9, 12))[labels] + rng.standard_normal((200, 12))).astype(np.float32)
    return vectors, labels


def test_dispersion_is_formula_5(clustered):
    vectors, labels = clustered
    groups = [vectors[labels == label].astype(np.float64) for label in range(9)]
    centre = vectors.astype(np.float64).mean(axis=0)
    between = sum(len(group) * ((group.mean(axis=0) - centre) ** 2).sum() for group in groups)
    within = sum(((group - group.mean(axis=0)) ** 2).sum() for group in groups)
    expected = (between / 8) / (within / (200 - 9))
    assert calinski_harabasz(vectors, labels * 5 - 3) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2]])
def test_dispersion_needs_something_to_compare(labels):
    with pytest.raises(ValueError, match="labels"):
        calinski_harabasz(np.eye(3), np.array(labels))


def test_mean_cosine_agrees_with_scikit_learn(clustered):
    vectors, labels = clustered
    means = np.stack([vectors[labels == label].mean(axis=0) for label in range(9)])
    expected = np.mean(cosines(vectors, means)[np.arange(200), labels])
    assert cosine_similarity(vectors, labels) == pytest.approx(expected, rel=1e-5)


def test_length_does_not_count_and_zeros_count_as_zero():
    vectors = np.array([[1.0, 0], [9, 0], [0, 3], [0, 0]])
    assert cosine_similarity(vectors, np.array([0, 0, 1, 2])) == pytest.approx(0.75)


def test_no_vectors():
    with pytest.raises(ValueError, match="no vectors"):
        cosine_similarity(np.zeros((0, 3)), np.zeros(0, dtype=np.int64))
