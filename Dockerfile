# A compiler to build with, and an image with one binary and what it links: the gateway, or, with `--target api`, the API of the
# load tests. `.ci/dockerfile --build` runs the commands of the build stages in an empty folder, for those without Docker.
# `.ci/image` builds and runs the image without it.
FROM rust:1.95-slim-bookworm AS build
# aws-lc, the cryptography library, is C.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev ca-certificates && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY Cargo.toml Cargo.lock gateway.yaml ./
COPY crates crates
COPY lua lua

FROM build AS build-api
RUN cargo build --profile dist --locked --package tidegate-testkit

FROM debian:bookworm-slim AS api
COPY --from=build-api /build/target/dist/loadtest-api /usr/local/bin/loadtest-api
EXPOSE 9000
USER nobody
ENTRYPOINT ["/usr/local/bin/loadtest-api"]

FROM build AS build-gateway
# docker build --build-arg TIDEGATE_COMMIT="$(git rev-parse --short=12 HEAD)": the image has no git.
ARG TIDEGATE_COMMIT=
RUN cargo build --profile dist --locked --package tidegate
# The binary, its libraries, the authorities of TLS, one user.
RUN crates/gateway/packaging/image-root target/dist/tidegate image && cp gateway.yaml image/etc/tidegate/gateway.yaml

FROM scratch
COPY --from=build-gateway /build/image /
# A container is reached from outside of itself; the admin port too, by probes and Prometheus. Publish only what you mean to.
ENV TIDEGATE_LISTEN=0.0.0.0:8080 \
    TIDEGATE_ADMIN=0.0.0.0:9901 \
    TIDEGATE_CONFIG=/etc/tidegate/gateway.yaml
EXPOSE 8080 9901
USER 10001:10001
# By address: a file that is wrong on disk is no failure of the gateway, which keeps its configuration.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/usr/bin/tidegate", "health", "--admin", "http://127.0.0.1:9901"]
# SIGTERM, which stops a container, lets the requests in flight end first.
ENTRYPOINT ["/usr/bin/tidegate"]
CMD ["run"]
