"""Position distillation: a stretched encoder learns its new positions from the unstretched one."""
