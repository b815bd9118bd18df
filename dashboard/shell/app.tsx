import { QueryClientProvider } from '@tanstack/react-query'
import { type ReactNode, useEffect } from 'react'
import { queryClient } from '../live/queries.ts'
import { useStream } from '../live/stream.ts'
import { Frame } from './frame.tsx'
import { showPreferences } from './preferences.ts'
import { followHistory } from './router.tsx'
import { type SignedIn, session, start, useSession } from './session.ts'
import { SignIn, Starting, Unreachable } from './sign-in.tsx'

const retryMs = 2_000

showPreferences()

/** The whole page: the frame with a view for a signed-in user, otherwise the sign-in form. */
export function App(): ReactNode {
  const now = useSession()
  useEffect(followHistory, [])
  useEffect(() => void start(), [])
  // Retry until the server responds.
  useEffect(() => {
    if (now.state !== 'lost') return
    const timer = setTimeout(() => void start(), retryMs)
    return () => clearTimeout(timer)
  }, [now])

  switch (now.state) {
    case 'starting':
      return <Starting />
    case 'lost':
      return <Unreachable error={now.error} />
    case 'out':
      return <SignIn why={now.why} />
    case 'in':
      return (
        <QueryClientProvider client={queryClient}>
          <Inside signedIn={now} key={`${now.me.id} ${now.me.namespace}`} />
        </QueryClientProvider>
      )
  }
}

/** Another token or namespace must not see cached data. */
session.subscribe(() => queryClient.clear())

function Inside({ signedIn }: { readonly signedIn: SignedIn }): ReactNode {
  useStream(signedIn.client)
  return <Frame />
}
