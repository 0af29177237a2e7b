/** An answer, as it came: nothing is retried, no status is an error. */
export interface Answered {
  status: number;
  headers: Headers;
  body: Record<string, unknown>;
}

export interface CallOptions {
  token?: string;
  body?: unknown;
  headers?: Record<string, string> | undefined;
}

export async function call(
  method: string,
  url: string,
  { token, body, headers = {} }: CallOptions = {},
): Promise<Answered> {
  const response = await fetch(url, {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>),
  };
}
