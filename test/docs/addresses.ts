/** The addresses that pages name, and where each leads while they are run. This is the one place that says so. */
import { replace } from './prelude.ts'

export interface Addresses {
  /** The page's own server, on its `sqlite:signalbox.db`; of pages that name one. */
  readonly server?: string | undefined
  /** A database of the page's own. */
  readonly postgres?: string | undefined
  readonly mariadb?: string | undefined
  readonly redis?: string | undefined
}

/** Of the page that this process runs. */
export let addresses: Addresses = {}

const written: Readonly<Record<keyof Addresses, readonly string[]>> = {
  server: ['http://127.0.0.1:7420', 'https://jobs.example.com'],
  postgres: ['postgres://app@db/shop', 'postgres://…'],
  mariadb: ['mysql://app@db/shop', 'mysql://…'],
  redis: ['redis://cache:6379', 'redis://…'],
}

/** Which of them a text asks for. */
export function addressesIn(text: string): ReadonlySet<keyof Addresses> {
  const names = Object.keys(written) as (keyof Addresses)[]
  return new Set(
    names.filter(
      (name) => text.includes(`addresses.${name}`) || written[name].some((each) => text.includes(each)),
    ),
  )
}

/** Makes the page's addresses known, and maps the documented ones to them. */
export function setAddresses(given: Addresses): void {
  addresses = given
  for (const [name, texts] of Object.entries(written)) {
    const url = given[name as keyof Addresses]
    if (url === undefined) continue
    for (const text of texts) {
      replace(text, url)
      if (name === 'server') replace(text.replace(/^http/, 'ws'), url.replace(/^http/, 'ws'))
    }
  }
}
