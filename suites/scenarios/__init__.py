"""The ChainerJob scenarios: written once, run on the embedded and on a real cluster, compared."""
