# The node's image, from the repository's root:
#   docker build -t hopcache:dev .
# BuildKit and the classic builder take it. Only the first stage needs the network: the crates of Cargo.lock.
# `cargo xtask images` makes the same image without a registry, from a build for tests.

# The version is the one of rust-toolchain.toml (a test compares). Not the slim image: it has no C compiler.
FROM rust:1.95.0-bookworm AS build
# `release` is what is published. `container` is built in half of the time, and answers a little slower.
ARG PROFILE=release
WORKDIR /source
COPY . .
# The target is named so that the flags do not reach build scripts and macros. The profile says what a node does most
# (docs/operating/deploy.md); it belongs to this version of Rust.
RUN target=$(uname -m)-unknown-linux-gnu \
 && gzip -dc crates/node/release.profdata.gz >/release.profdata \
 && RUSTFLAGS="-C target-feature=+crt-static -C strip=symbols -C profile-use=/release.profdata -C llvm-args=-no-pgo-warn-mismatch" \
    cargo build --locked --package hopcache --bin hopcache --profile "$PROFILE" --target "$target" \
 && mkdir -p /image/usr/local/bin /image/usr/share/doc/hopcache /image/etc/ssl/certs \
 && mkdir -m 1777 /image/tmp \
 && cp "target/$target/$PROFILE/hopcache" /image/usr/local/bin/ \
 && cp LICENSE-APACHE LICENSE-MIT /image/usr/share/doc/hopcache/ \
 && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
 && printf 'root:x:0:0:root:/root:/sbin/nologin\nhopcache:x:10001:10001:hopcache:/:/sbin/nologin\n' >/image/etc/passwd \
 && printf 'root:x:0:\nhopcache:x:10001:\n' >/image/etc/group \
 && printf 'hosts: files dns\n' >/image/etc/nsswitch.conf

# No shell, no package, no library: one static program.
FROM scratch
COPY --from=build /image/ /
ENV PATH=/usr/local/bin
USER 10001:10001
# Clients (HTTP), peers (TCP and UDP), operators, clients (Bolt).
EXPOSE 7475 7476 7476/udp 7477 7478
HEALTHCHECK --interval=5s --timeout=2s --start-period=20s CMD ["hopcache", "health"]
ENTRYPOINT ["hopcache"]
CMD ["serve"]
