"""TPU slices of several machines; imported only where a machine is told that it is part of one."""
