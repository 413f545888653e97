"""Names of other packages, so that code that was written for them runs with this one."""
