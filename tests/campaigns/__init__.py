"""Damage, kills, full disks and hostile input: many trials by hand, few in CI."""

SMALL = {
    "adapters": 4,
    "arrays": 12,
    "bombs": 4,
    "caches": 2,
    "cancellations": 15,
    "children": 6,
    "clients": 8,
    "damage": 14,
    "deletions": 3,
    "forks": 5,
    "full_disk": 8,
    "hirag": 2,
    "hostile": 10,
    "kills": 8,
    "outputs": 400,
    "power_cuts": 3,
    "traces": 10,
}
"""Trials of each campaign in CI: some kinds need more than others to meet something."""
