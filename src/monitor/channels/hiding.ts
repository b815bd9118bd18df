import type { Robot } from './channel.ts'

/**
 * A provider's words go into reasons that people read, and a provider may repeat what it was sent. So everything that
 * is secret about a channel is taken out of them: secrets, urls, and the parts of urls that hold keys.
 */
export function createHiding(
  robots: readonly Robot[],
  others: readonly string[] = [],
): (text: string) => string {
  const secrets = new Set<string>(others)
  const own = new Set<string>()
  for (const { url, secret } of robots) {
    const { pathname, search, searchParams } = new URL(url)
    secrets.add(url).add(pathname + search)
    if (secret !== null) own.add(secret)
    for (const value of searchParams.values()) secrets.add(value).add(encodeURIComponent(value))
    // Words of a path ('services', 'send') are short; the keys of Slack and Feishu in it are not.
    for (const part of pathname.split('/')) if (part.length >= 9) secrets.add(part)
  }
  // Short values of a url are words and numbers that any text has; a secret is hidden however short it is.
  for (const secret of secrets) if (secret.length >= 4) own.add(secret)
  // The longest first: a url is hidden whole and not only the key in it.
  const longestFirst = [...own].sort((a, b) => b.length - a.length)
  return (text) => longestFirst.reduce((shown, secret) => shown.replaceAll(secret, '***'), text)
}
