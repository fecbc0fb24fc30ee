# A compiler to build with, and a small system that holds one binary: the gateway, or, with `--target api`, the API of the
# load tests. `.ci/dockerfile --build` runs the commands of the build stages in an empty folder, for those without Docker.
FROM rust:1.95-slim-bookworm AS build
# aws-lc, the cryptography library, is C.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
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
RUN cargo build --profile dist --locked --package tidegate

FROM debian:bookworm-slim
# The authorities that servers at https:// and rediss:// are known by.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
RUN useradd --system --no-create-home --shell /usr/sbin/nologin tidegate
COPY --from=build-gateway /build/target/dist/tidegate /usr/local/bin/tidegate
COPY gateway.yaml /etc/tidegate/gateway.yaml
# A container is reached from outside of itself; the admin port too, by probes and Prometheus. Publish only what you mean to.
ENV TIDEGATE_LISTEN=0.0.0.0:8080 \
    TIDEGATE_ADMIN=0.0.0.0:9901
EXPOSE 8080 9901
USER tidegate
# SIGTERM, which stops a container, lets the requests in flight end first.
ENTRYPOINT ["/usr/local/bin/tidegate"]
CMD ["run", "--config", "/etc/tidegate/gateway.yaml"]
