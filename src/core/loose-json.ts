/**
 * The JSON of any value, for messages and errors. What JSON cannot hold (a bigint, a circle) becomes text instead of an
 * error, and characters that some stores refuse are replaced. Undefined when reading the value throws, or it has no JSON.
 */
export function looseJson(value: unknown): string | undefined {
  const holders: unknown[] = []
  function replace(this: unknown, _key: string, part: unknown): unknown {
    if (typeof part === 'string') return sound(part)
    if (typeof part === 'bigint') return String(part)
    if (typeof part !== 'object' || part === null) return part
    // `this` holds the part: holders behind it on the stack are finished.
    while (holders.length > 0 && holders.at(-1) !== this) holders.pop()
    if (holders.includes(part)) return '[circular]'
    const readable = withSoundKeys(part)
    holders.push(readable)
    return readable
  }
  try {
    return JSON.stringify(value, replace)
  } catch {
    return undefined
  }
}

/** NUL and lone surrogates are refused by some stores; in an error they are not worth refusing. */
export function sound(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed()
}

function withSoundKeys(part: object): object {
  if (Array.isArray(part) || Object.keys(part).every((key) => sound(key) === key)) return part
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [sound(key), value]))
}
