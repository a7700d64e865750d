"""GPUs and TPUs, several devices, and programs that are compiled for chips that are not there."""
