"""What other tools printed, as figures that `judge` judges: a module for each tool."""
