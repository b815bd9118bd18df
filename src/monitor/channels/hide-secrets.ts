import type { Robot } from './channel.ts'

/**
 * A provider's words go into reasons that people read, and a provider may repeat what it was sent, whole or in part. So
 * everything that is secret about a channel is taken out of them: secrets, urls, values of headers, and the parts of urls
 * and headers that hold keys.
 */
export function createHiding(
  robots: readonly Robot[],
  headerValues: readonly string[] = [],
): (text: string) => string {
  const secrets = new Set<string>(headerValues.flatMap(partsOfHeader))
  const own = new Set<string>()
  for (const { url, secret } of robots) {
    const { pathname, search, searchParams } = new URL(url)
    secrets.add(url).add(pathname + search)
    if (secret !== null) own.add(secret)
    for (const value of searchParams.values()) secrets.add(value).add(encodeURIComponent(value))
    for (const part of pathname.split('/')) if (isLong(part)) secrets.add(part).add(decoded(part))
  }
  // Short values of a url are words and numbers that any text has; a secret is hidden however short it is.
  for (const secret of secrets) if (secret.length >= 4) own.add(secret)
  // The longest first: a url is hidden whole and not only the key in it.
  const longestFirst = [...own].sort((a, b) => b.length - a.length)
  return (text) => longestFirst.reduce((shown, secret) => shown.replaceAll(secret, '***'), text)
}

/** Words ('services', 'send', 'Bearer') are short; keys are not. */
function isLong(part: string): boolean {
  return part.length >= 9
}

/** A receiver that refuses `Bearer KEY` repeats the key alone, and one that refuses `Basic …` what it stands for. */
function partsOfHeader(value: string): readonly string[] {
  const parts = value.split(/[\s,;=]+/).filter(isLong)
  const [, basic] = /^basic +(\S+)$/i.exec(value) ?? []
  if (basic === undefined) return [value, ...parts]
  const credentials = Buffer.from(basic, 'base64').toString()
  return [value, ...parts, basic, credentials, credentials.slice(credentials.indexOf(':') + 1)]
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
