"""`refold replay`: fold a log again and compare every command with the stored one."""
