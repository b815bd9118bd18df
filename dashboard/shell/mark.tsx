import type { ReactNode } from 'react'

/** The product's name and logo. */
export function Mark(): ReactNode {
  return (
    <span className="mark">
      <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
        <rect width="32" height="32" rx="7" className="mark-ground" />
        <path d="M9 26V6" className="mark-post" />
        <path d="M9 8l15 4-15 4z" className="mark-arm" />
        <circle cx="20" cy="23" r="4" className="mark-light" />
      </svg>
      Signalbox
    </span>
  )
}
