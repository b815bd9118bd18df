/** What the nodes of one kind have in common. */
export interface SignatureParts {
  /** By name, with their tags as a text. */
  readonly services: readonly (readonly [name: string, tags: string])[]
  readonly labels: readonly (readonly [name: string, value: string])[]
}

/** A signature is a list of services and, right behind it, an object of labels; undefined when it is something else. */
export function signatureParts(text: string): SignatureParts | undefined {
  for (let at = text.indexOf(']{'); at >= 0; at = text.indexOf(']{', at + 1)) {
    try {
      const services: unknown = JSON.parse(text.slice(0, at + 1))
      const labels: unknown = JSON.parse(text.slice(at + 1))
      return {
        services: (services as readonly [string, readonly [string, readonly string[]][]][]).map(
          ([name, tags]) => [
            String(name),
            tags.map(([tag, values]) => `${tag}: ${values.join(', ')}`).join('; '),
          ],
        ),
        labels: Object.entries(labels as object).map(([name, value]) => [name, String(value)]),
      }
    } catch {
      // A name may contain the separator: try the next position.
    }
  }
  return undefined
}
