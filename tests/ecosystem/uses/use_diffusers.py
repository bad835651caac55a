"""U-Nets, autoencoders and a diffusion transformer, fourteen schedulers, whole pipelines from given noise, training, saving, EMA"""

import diffusers
import numpy as np
import torch
import transformers
from diffusers.training_utils import EMAModel
from same import descend, fill, gradients, integers, normal, use

PACKAGES = ["diffusers"]


def unet(**more):
    config = {
        "sample_size": 8, "in_channels": 3, "out_channels": 3, "layers_per_block": 1, "block_out_channels": (8, 16),
        "norm_num_groups": 4, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
        "attention_head_dim": 4,
    }  # fmt: skip
    return fill(diffusers.UNet2DModel(**{**config, **more})).eval()


def conditioned():
    return fill(diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32, attention_head_dim=4,
    )).eval()  # fmt: skip


def autoencoder():
    return fill(diffusers.AutoencoderKL(
        in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(8, 8), norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )).eval()  # fmt: skip


@use
def networks(folder):
    model = unet()
    out = model(normal(2, 3, 8, 8), torch.tensor([3, 50])).sample
    out.square().mean().backward()
    yield "unet", [out, gradients(model)]
    yield "conditioned", conditioned()(normal(1, 4, 8, 8), 10, normal(1, 5, 32)).sample
    coder = autoencoder()
    codes = coder.encode(normal(1, 3, 16, 16)).latent_dist
    yield "codes", [codes.mode(), codes.std, codes.kl()]
    yield "decoded", coder.decode(codes.mode()).sample
    coder.enable_tiling()
    coder.enable_slicing()
    yield "tiled", coder.decode(codes.mode()).sample
    quantized = diffusers.VQModel(block_out_channels=(8,), norm_num_groups=4, num_vq_embeddings=12)
    yield "quantized", fill(quantized).eval()(normal(1, 3, 8, 8)).sample
    dit = diffusers.DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        num_layers=1,
        sample_size=8,
        norm_num_groups=4,
        num_embeds_ada_norm=5,
    )
    yield (
        "dit",
        fill(dit)
        .eval()(normal(1, 4, 8, 8), timestep=torch.tensor([4]), class_labels=torch.tensor([2]))
        .sample,
    )


@use
def schedulers(folder):
    for name in ("DDIMScheduler", "PNDMScheduler", "EulerDiscreteScheduler", "HeunDiscreteScheduler", "LMSDiscreteScheduler",
                 "DPMSolverMultistepScheduler", "DPMSolverSinglestepScheduler", "UniPCMultistepScheduler", "DEISMultistepScheduler",
                 "KDPM2DiscreteScheduler", "DDIMInverseScheduler", "FlowMatchEulerDiscreteScheduler", "EDMEulerScheduler", "IPNDMScheduler"):  # fmt: skip
        scheduler = getattr(diffusers, name)()
        scheduler.set_timesteps(6)
        x = normal(1, 3, 4, 4) * getattr(scheduler, "init_noise_sigma", 1.0)
        for i, t in enumerate(scheduler.timesteps):
            scaled = (
                scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
            )
            x = scheduler.step(0.3 * scaled + 0.1 * normal(1, 3, 4, 4, key=i), t, x).prev_sample
        yield name, [x, scheduler.timesteps]
    ddpm = diffusers.DDPMScheduler(
        beta_schedule="squaredcos_cap_v2", prediction_type="v_prediction"
    )
    noised = ddpm.add_noise(normal(2, 3, 4, 4), normal(2, 3, 4, 4, key=1), torch.tensor([10, 900]))
    yield "noised", noised
    yield (
        "velocity",
        ddpm.get_velocity(normal(2, 3, 4, 4), normal(2, 3, 4, 4, key=1), torch.tensor([10, 900])),
    )
    generator = torch.Generator().manual_seed(0)
    yield "sampled", list(ddpm.step(noised, 10, noised, generator=generator).prev_sample.shape)


@use
def pipelines(folder):
    pipe = diffusers.DDIMPipeline(unet(), diffusers.DDIMScheduler())
    pipe.set_progress_bar_config(disable=True)
    pictures = pipe(
        num_inference_steps=3, generator=torch.Generator().manual_seed(1), output_type="np"
    ).images
    yield "ddim", list(pictures.shape)
    pipe.save_pretrained(folder / "ddim")
    again = diffusers.DiffusionPipeline.from_pretrained(folder / "ddim")
    yield "loaded", [type(again).__name__, again.unet(normal(1, 3, 8, 8), 5).sample]
    text = transformers.CLIPTextModel(transformers.CLIPTextConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=16, bos_token_id=1, eos_token_id=2, pad_token_id=0))  # fmt: skip
    stable = diffusers.StableDiffusionPipeline(
        vae=autoencoder(), text_encoder=fill(text).eval(), tokenizer=None, unet=conditioned(),
        scheduler=diffusers.EulerDiscreteScheduler(), safety_checker=None, feature_extractor=None,
        requires_safety_checker=False,
    )  # fmt: skip
    stable.set_progress_bar_config(disable=True)
    words, none = (text(integers(3, 64, 1, 8, key=key)).last_hidden_state for key in (0, 1))
    drawn = stable(
        prompt_embeds=words, negative_prompt_embeds=none, latents=normal(1, 4, 8, 8), num_inference_steps=3,
        guidance_scale=5.0, output_type="np", height=16, width=16,
    ).images  # fmt: skip
    yield "stable diffusion", np.asarray(drawn)


@use
def training(folder):
    model, noise = unet(), normal(2, 3, 8, 8, key=1)
    scheduler, average = diffusers.DDPMScheduler(), EMAModel(model.parameters(), decay=0.9)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = diffusers.optimization.get_cosine_schedule_with_warmup(optimizer, 1, 4)

    def loss(step):
        noisy = scheduler.add_noise(normal(2, 3, 8, 8), noise, torch.tensor([5, 200]))
        average.step(model.parameters())
        return torch.nn.functional.mse_loss(model(noisy, torch.tensor([5, 200])).sample, noise)

    yield "losses", descend(model.train(), loss, 4, optimizer)
    schedule.step()
    average.copy_to(model.parameters())
    yield "average", model.conv_in.weight
    model.enable_gradient_checkpointing()
    yield "checkpointing", descend(model, loss, 2, optimizer)
