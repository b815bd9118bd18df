import { namespaceToName, type SignedIn, useSignedIn } from '../../shell/session.ts'

/** A command that sends this to this very server, as whoever reads it: to copy into a shell. */
export function useCurl(path: string, body: unknown): string {
  return curlOf(new URL(path, document.baseURI).href, body, useSignedIn())
}

export function curlOf(
  url: string,
  body: unknown,
  { me, hasToken }: { readonly me: Pick<SignedIn['me'], 'everyNamespace' | 'namespace'>; hasToken: boolean },
): string {
  const namespace = namespaceToName(me)
  return [
    `curl -X POST ${url}`,
    // Between these quotes a shell puts the value in; the token itself is not shown.
    ...(hasToken ? [`-H "authorization: Bearer $SIGNALBOX_TOKEN"`] : []),
    ...(namespace === undefined
      ? []
      : [`-H ${quoted(`signalbox-namespace: ${encodeURIComponent(namespace)}`)}`]),
    `-H ${quoted('content-type: application/json')}`,
    `-d ${quoted(JSON.stringify(body))}`,
  ].join(' ')
}

/** As one word of a shell, whatever is in it. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
