// batch_rules.h: the batching rules that a row may name (`batch:`); see Note [Batched tensors] in
// vmap.h. Rows with a `kernel:` have `pointwise` unless they name another; composites without a rule
// run on wrappers, and whatever else has none runs sample by sample. Generated code declares the
// rules that it names by itself: a name without a function does not link.
#pragma once

namespace rush {

class BatchedCall;

namespace batch {

// Elements and memory (vmap_rules.cpp).
void pointwise(BatchedCall& c);  // samples side by side, 0-d ones weak in promotion
void pointwise_by_condition(BatchedCall& c);
void align(BatchedCall& c);                // samples side by side, dtypes as they are
void side_by_side(BatchedCall& c);         // tensors of the same sizes, which do not broadcast
void same(BatchedCall& c);                 // the same call serves the physical tensor
void same_without_format(BatchedCall& c);  // the same, but for a memory_format
void made_contiguous(BatchedCall& c);
void filled(BatchedCall& c);
void masked_filled(BatchedCall& c);
void new_like(BatchedCall& c);
void new_strided(BatchedCall& c);

// Calls that cannot be one, and calls that vmap refuses.
void sample_by_sample(BatchedCall& c);  // composites that read values themselves
void shaped_by_second(BatchedCall& c);  // refused where argument 1 differs from sample to sample
void data_dependent(BatchedCall& c);    // refused: the shape of the result depends on the data
void refused(BatchedCall& c);           // refused: the op sets the geometry of memory

// Dims of self, which move up by one.
void along_dims(BatchedCall& c);
void arg_along_dim(BatchedCall& c);  // without a dim the result is an index into one sample
void median_of_all(BatchedCall& c);
void nanmedian_of_all(BatchedCall& c);
void view_dims(BatchedCall& c);
void view_new_dim(BatchedCall& c);
void select_one(BatchedCall& c);
void squeeze_all(BatchedCall& c);
void squeeze_dims(BatchedCall& c);
void permute_dims(BatchedCall& c);
void reshaped(BatchedCall& c);
void expanded(BatchedCall& c);
void spread(BatchedCall& c);
void by_geometry(BatchedCall& c);

// Joining and indexing.
void joined(BatchedCall& c);
void piled(BatchedCall& c);
void all_batched_along_dim(BatchedCall& c);  // self, index and source all have their samples
void taken_along_dim(BatchedCall& c);
void selected(BatchedCall& c);
void indexed(BatchedCall& c);

// Views in place: the wrapper gets another geometry (vmap_views.cpp).
void transpose_in_place(BatchedCall& c);
void t_in_place(BatchedCall& c);
void squeeze_in_place(BatchedCall& c);
void unsqueeze_in_place(BatchedCall& c);

// Products (vmap_products.cpp).
void matrix_product(BatchedCall& c);
void matrix_vector(BatchedCall& c);
void vector_product(BatchedCall& c);
void add_product(BatchedCall& c);
void linear_map(BatchedCall& c);

// Convolutions (vmap_convolution.cpp).
void convolution_forward(BatchedCall& c);
void convolution_input_grad(BatchedCall& c);
void convolution_weight_grad(BatchedCall& c);

// Batches of images and their norms (vmap_images.cpp).
void more_images(BatchedCall& c);    // samples are more images
void more_channels(BatchedCall& c);  // samples are more channels
void row_norm(BatchedCall& c);
void row_norm_backward(BatchedCall& c);

}  // namespace batch
}  // namespace rush
