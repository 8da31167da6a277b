//! Files that distributions of nginx bring along, for configs that include them and come without: they say the same everywhere.

/// What a file says, by the end of its name. `""`: nothing that is not known.
pub(super) fn text(name: &str) -> Option<&'static str> {
    let file = name.rsplit('/').next().unwrap_or(name);
    Some(match file {
        "fastcgi_params" | "fastcgi.conf" => FASTCGI,
        "fastcgi-php.conf" => FASTCGI_PHP,
        "proxy_params" => PROXY,
        // They are for servers that are not supported, which is said where these are named.
        "uwsgi_params" | "scgi_params" => "",
        "options-ssl-nginx.conf" => OPTIONS_SSL,
        _ => return None,
    })
}

/// Parameters that Weir sends to every server of FastCGI. `SCRIPT_FILENAME` is the same in both files, since Weir finds the script in any case.
const FASTCGI: &str = "fastcgi_param QUERY_STRING $query_string;";

/// Debian's `snippets/fastcgi-php.conf`.
const FASTCGI_PHP: &str = "fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
try_files $fastcgi_script_name =404;
set $path_info $fastcgi_path_info;
fastcgi_param PATH_INFO $path_info;
fastcgi_index index.php;
fastcgi_param QUERY_STRING $query_string;";

/// Debian's `proxy_params`.
const PROXY: &str = "proxy_set_header Host $http_host;
proxy_set_header X-Real-IP $remote_addr;
proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
proxy_set_header X-Forwarded-Proto $scheme;";

/// Certbot's `options-ssl-nginx.conf`.
const OPTIONS_SSL: &str = "ssl_session_cache shared:le_nginx_SSL:10m;
ssl_session_timeout 1440m;
ssl_session_tickets off;
ssl_protocols TLSv1.2 TLSv1.3;
ssl_prefer_server_ciphers off;
ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384;";

/// Extensions of nginx's `mime.types` that Weir has no type for, which is that of all other files then.
const RARE: &str = " shtml mml jad wml htc svgz wbmp jng war ear hqx eps ai kml kmz odg wmlc cco jardiff jnlp run pl pm prc pdb rpm sea swf sit tcl \
    tk der pem crt xpi xspf bin exe dll dmg iso img msi msp msm mid midi kar ra 3gpp 3gp mpg flv mng asx asf wmv heif avifs cur rtf jsonld ";

/// Whether a file of media types names no extension that nginx's own does not name.
pub(super) fn has_usual_types(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words: Vec<&str> = lines.flat_map(|line| line.split([' ', '\t', ';', '{', '}', '\r'])).collect();
    words.iter().filter(|word| !word.is_empty() && !word.contains('/') && **word != "types").all(
        |extension| weir_http::media_type(extension).is_some() || RARE.contains(&format!(" {extension} ")),
    )
}
