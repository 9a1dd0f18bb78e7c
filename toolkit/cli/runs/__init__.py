"""The commands about runs: start one (`running`, `place`), look at it (`stored`, `report`), answer it (`approvals`)."""
