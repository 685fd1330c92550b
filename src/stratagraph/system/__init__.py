"""What the operating system is asked for: locks that survive a fork, memory given back."""
