/// A part of a certificate that can name its owner (OpenVPN's `x509-username-field`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameField {
    /// The last attribute of the subject with this dotted OID.
    Subject(String),
    /// The certificate's serial number, in hexadecimal after `0x`.
    Serial,
    /// The last e-mail address among the subject's alternative names (`ext:subjectAltName`).
    SubjectEmail,
    /// The last e-mail address among the issuer's alternative names (`ext:issuerAltName`).
    IssuerEmail,
}
