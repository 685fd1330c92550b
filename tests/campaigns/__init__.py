"""Damage, kills, full disks and hostile input: many trials by hand, few in CI."""

CAMPAIGNS = {
    "arrays": ("arrays.campaign", 8),
    "bombs": ("bombs.campaign", 4),
    "cancellations": ("changes.cancellations", 16),
    "children": ("children.campaign", 4),
    "clients": ("clients.campaign", 24),
    "damage": ("faults.damage", 14),
    "forks": ("changes.forks", 5),
    "full_disk": ("interrupted.full_disk", 4),
    "hirag": ("hirag.campaign", 2),
    "hostile": ("faults.hostile", 10),
    "kills": ("interrupted.kills", 12),
    "outputs": ("outputs.campaign", 250),
    "power_cuts": ("interrupted.power_cuts", 3),
    "updates": ("updates.campaign", 4),
}
"""Each campaign, and its trials in CI: some kinds need more than others to meet something."""
