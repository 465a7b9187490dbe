import type { Refusal } from "../rejection.js";
import type { FastifyReplyLike } from "./fastify-like.js";

/** Answers with a refusal. */
export async function sendRefusal(
  reply: FastifyReplyLike,
  { status, fields, body, custom }: Refusal,
): Promise<void> {
  if (custom === undefined) {
    send(reply, status, fields, body);
    return;
  }
  // Fastify has no way to send a Response that has no body to HEAD.
  const made = await custom();
  const bytes = made.body === null ? "" : new Uint8Array(await made.arrayBuffer());
  send(reply, made.status, [...made.headers], bytes);
}

function send(
  reply: FastifyReplyLike,
  status: number,
  fields: Refusal["fields"],
  body: string | Uint8Array | undefined,
): void {
  reply.code(status);
  for (const [name, value] of fields) {
    // What CORS has said before counts too.
    const there = name.startsWith("access-control-") ? reply.getHeader(name) : undefined;
    reply.header(name, there === undefined ? value : `${String(there)}, ${value}`);
  }
  reply.send(body);
}
