"""One prompt seen through: asked, tried again where that is not the agent's fault, verified, and sent back to mend."""
