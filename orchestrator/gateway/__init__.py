"""The one door to models: keys stay outside, every call is metered, capped, recorded, replayable."""
