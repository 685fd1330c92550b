"""Arrays in, arrays out: seeded, without I/O, models or logging. Import the module that you need."""
