import { namespaceToName, type SignedIn, useSignedIn } from '../../shell/session.ts'

/** A shell command that sends this request to this server, as the signed-in user. */
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
    // The shell expands the variable inside double quotes, so the page never shows the token.
    ...(hasToken ? [`-H "authorization: Bearer $SIGNALBOX_TOKEN"`] : []),
    ...(namespace === undefined
      ? []
      : [`-H ${quoted(`signalbox-namespace: ${encodeURIComponent(namespace)}`)}`]),
    `-H ${quoted('content-type: application/json')}`,
    `-d ${quoted(JSON.stringify(body))}`,
  ].join(' ')
}

/** Quotes any text as one word of a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
