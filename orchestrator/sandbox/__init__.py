"""Docker containers, images and the engine. The only owner of the docker SDK."""
