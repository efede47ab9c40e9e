from IPython.display import Image, display
import matplotlib.pyplot as plt, numpy as np
plt.imsave("noise.png", np.random.default_rng(0).random((20, 30)), cmap="gray")
Image("noise.png")
# %%
display(Image(filename="noise.png"))
display(Image(data=open("noise.png", "rb").read()))
# %%
from PIL import Image as PILImage
im = PILImage.open("noise.png").convert("L").resize((60, 40))
im
# %%
im.size, im.mode, np.asarray(im).mean().round(2)
# %%
im.save("large.jpg")
Image("large.jpg")
# %%
plt.imshow(plt.imread("noise.png"))
plt.axis("off")
