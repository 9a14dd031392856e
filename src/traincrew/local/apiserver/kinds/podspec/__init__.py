"""What pods and the templates of pods share, in whatever kind they occur."""
