// math_trig_table.h (host): 2/pi, for the range reduction of double; see Note [Range reduction].
#pragma once

namespace rush::math {

// Row r holds 2^(32 r) 2/pi mod 4 as the sum of four doubles, one from each array.
inline constexpr double two_over_pi_1[32] = {
    0x1.45f306dc9c883p-1, -0x1.b1bbead603d8bp+0, 0x1.fc2757d1f534ep+0, 0x1.f534ddc0db629p+0,
    0x1.b6c52b3278872p-1, 0x1.3c439041fe516p+0, 0x1.fe5163abdebbcp+0, -0x1.0a21d4f246dc9p-3,
    0x1.b7246e3a424ddp+0, -0x1.bdb22d1ff9b6dp+0, 0x1.924bba8274648p-6, -0x1.f62e6de301e21p+0,
    0x1.fc3bd63962535p-1, 0x1.62534e7dd1047p-1, -0x1.177dca0ad144cp+0, 0x1.2ebb4484e99c7p+0,
    0x1.d338e04d68bfp-1, -0x1.4ba081bec66e3p+0, 0x1.3991d63983534p+0, 0x1.835339f49c846p+0,
    0x1.3908bf177bf25p-1, -0x1.081b5f13801dap-2, -0x1.c00ed00043f4dp-1, -0x1.0fd33f8086877p-3,
    -0x1.0d0ee74a5f593p-4, -0x1.4beb25c12593p-1, -0x1.25930261b069fp-1, -0x1.b069ec9161738p-1,
    -0x1.61738132c3403p-1, -0x1.61a015d28ad84p+0, 0x1.7527bac7ebe5fp+0, 0.0,
};
inline constexpr double two_over_pi_2[32] = {
    -0x1.6b01ec5417056p-55, 0x1.f47d4d377036ep-54, -0x1.1f924eb53361ep-55, 0x1.664f10e4107f9p-54,
    0x1.07f9458eaf7afp-58, 0x1.d5ef5de2b0db9p-55, 0x1.586dc91b8e909p-54, 0x1.d2126e9700325p-59,
    0x1.700324977504fp-55, -0x1.15f62e6de301ep-56, 0x1.cfe1deb1cb12ap-60, -0x1.38d3b5963045ep-54,
    -0x1.822efb9415a29p-57, -0x1.0568a25dbd8b3p-55, 0x1.213a671c09ad1p-54, 0x1.35a2fbf209cc9p-59,
    -0x1.bec66e29c67cbp-56, 0x1.8e60d4ce7d272p-54, -0x1.82d8dee81d108p-54, -0x1.d1081b5f13802p-58,
    0x1.d8ffc4bffef03p-59, -0x1.0fd33f8086877p-67, 0x1.fde5e2316b415p-61, -0x1.d297d64b824b2p-58,
    0x1.f6d367ecf27cbp-60, -0x1.30d834f648b0cp-56, 0x1.b74f463f669e6p-56, -0x1.32c3402ba515bp-57,
    0x1.16ba93dd63f5fp-55, -0x1.4e050683a130cp-54, 0x1.7b3d0739f78a5p-56, 0.0,
};
inline constexpr double two_over_pi_3[32] = {
    -0x1.6447e493ad4cep-109, -0x1.d6a66c3bc6fbep-108,
    0x1.c820ff28b1d5fp-111, 0x1.163abdebbc562p-108,
    -0x1.d4f246dc8e2dfp-115, 0x1.1b8e909374b8p-110, 0x1.ba5c00c925dd4p-109, -0x1.a22bec5cdbc6p-113,
    -0x1.cdbc603c429c7p-109, -0x1.0a71a76b2c609p-111,
    -0x1.63045df7282b4p-114, 0x1.1afa975da2427p-111,
    0x1.a24274ce38136p-111, -0x1.c7eca5d040df6p-111,
    0x1.f7e413991d63ap-108, -0x1.4e33e566305b2p-115,
    0x1.9cfa4e422fc5ep-111, 0x1.17e2ef7e4a0ecp-110, -0x1.b5f13801da001p-110, 0x1.2fffbc0b301fep-113,
    -0x1.9fc04343b9d29p-114, -0x1.d297d64b824b2p-122,
    -0x1.2e092c98130d8p-116, -0x1.8130d834f648bp-112,
    0x1.36e9e8c7ecd3dp-117, 0x1.8fd9a797fa8b6p-110,
    -0x1.5d28ad8453814p-116, -0x1.14e050683a131p-114,
    0x1.7c5ecf41ce7dep-110, 0x1.ce7de294a4baap-110, 0x1.497535fdafd89p-111, 0.0,
};
inline constexpr double two_over_pi_4[32] = {
    0x1.e21c820ff28b2p-163, -0x1.ae9c5421443aap-168,
    -0x1.443a9e48db91cp-168, -0x1.236e4716f6c8bp-162,
    0x1.374b801924bbbp-170, 0x1.924bba8274648p-166, 0x1.3a32439fc3bd6p-165, -0x1.e214e34ed658cp-168,
    0x1.894d39f74411bp-163, 0x1.1046bea5d7689p-165, -0x1.44bb7b16638fep-168, 0x1.338e04d68befdp-165,
    -0x1.741037d8cdc54p-165, -0x1.9b8a719f2b318p-166,
    -0x1.f2b3182d8dee8p-162, 0x1.08bf177bf2507p-169,
    -0x1.036be27003b4p-167, 0x1.ff897ffde0598p-164, 0x1.e05980fef2f12p-164, -0x1.a1dce94beb25cp-169,
    -0x1.f592e092c9813p-168, -0x1.8130d834f648bp-176,
    -0x1.a7b24585ce04dp-171, -0x1.738132c3402bap-169,
    -0x1.00ae9456c229cp-171, -0x1.5b08a7028341dp-165,
    -0x1.a0e84c2f8c608p-172, 0x1.0739f78a5292fp-168,
    0x1.4a525d4d7f6bfp-165, -0x1.404a04ee072a3p-164, -0x1.ca8bdea7f33eep-170, 0.0,
};

}  // namespace rush::math
